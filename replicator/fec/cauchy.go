package fec

import "github.com/klauspost/reedsolomon"

// The code is Reed-Solomon over GF(2^8) by a Cauchy matrix: parity row r of column c
// has the coefficient 1/(x(r)+y(c)) with all x and y different. Every square part of
// such a matrix can be inverted, so any lost packets come back from as many parity
// packets; and a coefficient depends on neither the number of data nor of parity
// packets, so that a group may end early, and a strength may change between groups,
// without both ends agreeing on a matrix.

var field reedsolomon.LowLevel

// coefficient of data packet c in parity packet r. r < [MaxParity] and c < [MaxData]
// keep 255-r and c apart.
func coefficient(r, c int) byte { return reedsolomon.Inv(byte(255-r) ^ byte(c)) }

// addShard adds data packet c to the parity packet r. The parity is at least as long.
func addShard(parity []byte, r, c int, shard []byte) {
	field.GalMulSliceXor(coefficient(r, c), shard, parity)
}

// times multiplies two elements.
func times(a, b byte) byte {
	in, out := [1]byte{a}, [1]byte{}
	field.GalMulSlice(b, in[:], out[:])
	return out[0]
}

// solve turns what is left of parity packets, after all data packets that are there
// were taken out of them, into the lost ones: left[i] belongs to row rows[i] and
// becomes data packet columns[i]. All of left have the same length.
func solve(left [][]byte, rows, columns []int) {
	n := len(rows)
	var m [MaxParity][MaxParity]byte
	for i, r := range rows {
		for j, c := range columns {
			m[i][j] = coefficient(r, c)
		}
	}
	// Gauss-Jordan. All leading minors of a Cauchy matrix differ from zero, so that
	// no row need ever be exchanged for another one.
	for i := range n {
		scale(left[i], m[i][:n], reedsolomon.Inv(m[i][i]))
		for k := range n {
			if f := m[k][i]; k != i && f != 0 {
				field.GalMulSliceXor(f, left[i], left[k])
				for j := range n {
					m[k][j] ^= times(m[i][j], f)
				}
			}
		}
	}
}

// scale multiplies a row of the matrix and what belongs to it.
func scale(packet, row []byte, by byte) {
	field.GalMulSlice(by, packet, packet)
	for j := range row {
		row[j] = times(row[j], by)
	}
}
