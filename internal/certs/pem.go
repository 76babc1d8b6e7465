package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	blockCert = "CERTIFICATE"
	blockKey  = "PRIVATE KEY" // PKCS #8
)

// maxFileBytes bounds a file of certificates or a key.
const maxFileBytes = 1 << 20

// EncodeCerts gives certificates as PEM.
func EncodeCerts(certs ...*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range certs {
		_ = pem.Encode(&b, &pem.Block{Type: blockCert, Bytes: c.Raw}) // a buffer takes everything
	}
	return b.Bytes()
}

// EncodeKey gives a key as PEM (PKCS #8).
func EncodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}

// DecodeCerts reads PEM that holds certificates and nothing else.
func DecodeCerts(data []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for rest := bytes.TrimSpace(data); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: not PEM")
		}
		if block.Type != blockCert {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: PEM block is a %.40q, want %s", block.Type, blockCert)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: %w", err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: no certificate")
	}
	return out, nil
}

// DecodeKey reads a PEM key as EncodeKey writes it.
func DecodeKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != blockKey {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: no PEM block %s", blockKey)
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: %w", err)
	}
	key, ok := k.(*ecdsa.PrivateKey)
	if !ok {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: key is a %T, want ECDSA", k)
	}
	return key, nil
}

// Save writes the certificate and its key (mode 0600), each replaced as a whole.
func (p Pair) Save(certFile, keyFile string) error {
	key, err := EncodeKey(p.Key)
	if err != nil {
		return err
	}
	// The key first: a Source that meets the pair in between keeps the old one.
	if err := writeFile(keyFile, key, 0o600); err != nil {
		return err
	}
	return writeFile(certFile, EncodeCerts(p.Cert), 0o644)
}

// LoadCA reads a CA to sign with. If the file holds several certificates, as while
// a CA is rolled over, the one that the key belongs to signs.
func LoadCA(certFile, keyFile string) (*CA, error) {
	certs, err := readCerts(certFile)
	if err != nil {
		return nil, err
	}
	key, err := readKey(keyFile)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return key.PublicKey.Equal(c.PublicKey) })
	if i < 0 {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: key %s is not that of certificate %s", keyFile, certFile)
	}
	cert := certs[i]
	mesh, ok := meshOfCA(cert)
	if !ok {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: %s is no CA of a mesh: it names %v", certFile, cert.URIs)
	}
	return &CA{Pair: Pair{cert, key}, Mesh: mesh}, nil
}

// Expiry gives when the first of a file's certificates ends.
func Expiry(certFile string) (time.Time, error) {
	certs, err := readCerts(certFile)
	if err != nil {
		return time.Time{}, err
	}
	return earliest(certs), nil
}

func earliest(certs []*x509.Certificate) time.Time {
	end := certs[0].NotAfter
	for _, c := range certs[1:] {
		if c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end
}

func readCerts(path string) ([]*x509.Certificate, error) {
	raw, err := readFile(path)
	if err != nil {
		return nil, err
	}
	certs, err := DecodeCerts(raw)
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "%s: %w", path, err)
	}
	return certs, nil
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	raw, err := readFile(path)
	if err != nil {
		return nil, err
	}
	key, err := DecodeKey(raw)
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "%s: %w", path, err)
	}
	return key, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindUnavailable, "certs: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindUnavailable, "certs: %w", err)
	}
	if len(raw) > maxFileBytes {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "certs: %s has more than %d bytes", path, maxFileBytes)
	}
	return raw, nil
}

// tempPattern names the files in which a file is written before it is there.
func tempPattern(path string) string { return "." + filepath.Base(path) + ".tmp-*" }

// writeFile replaces a file as a whole, so that a reader sees the old or the new.
func writeFile(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), tempPattern(path))
	if err != nil {
		return rhumb.Errorf(rhumb.KindUnavailable, "certs: %w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return rhumb.Errorf(rhumb.KindUnavailable, "certs: write %s: %w", path, err)
	}
	return nil
}
