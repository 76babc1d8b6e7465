package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// installJars gets the jars that a POM names, with those that they need, from Maven
// Central into dir, unless the same POM did so before. What is the peer's name, for
// messages.
func installJars(ctx context.Context, what, dir string, pom []byte) error {
	if _, err := exec.LookPath("java"); err != nil {
		return fmt.Errorf("%s needs a Java runtime, 17 or newer: apt-get install default-jre-headless", what)
	}
	if have, err := os.ReadFile(filepath.Join(dir, "pom.xml")); err == nil && bytes.Equal(have, pom) {
		return nil
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return fmt.Errorf("%s's jars come by Maven: apt-get install maven", what)
	}
	fresh := dir + ".new"
	if err := errors.Join(os.RemoveAll(fresh), os.MkdirAll(fresh, 0o755), os.WriteFile(filepath.Join(fresh, "pom.xml"), pom, 0o644)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-Dstyle.color=never", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=.")
	cmd.Dir, cmd.Stdout, cmd.Stderr = fresh, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mvn: %w", err)
	}
	return errors.Join(os.RemoveAll(dir), os.Rename(fresh, dir))
}
