package vfs

import "testing"

// TestMakeDirSurvivesPowerLoss: what it made, and the folder itself also when
// somebody else made it before and did not make it safe.
func TestMakeDirSurvivesPowerLoss(t *testing.T) {
	for _, safe := range []string{"/", "/a", "/a/b"} {
		for _, there := range []bool{false, true} {
			m := NewMem(MemConfig{})
			if err := MakeDir(m, safe); err != nil {
				t.Fatal(err)
			}
			if there {
				if err := m.MkdirAll(safe + "/c"); err != nil {
					t.Fatal(err)
				}
			}
			if err := MakeDir(m, safe+"/c"); err != nil {
				t.Fatal(err)
			}
			after := m.CrashClone(CrashOptions{Unsynced: UnsyncedLost})
			if _, err := after.Stat(safe + "/c"); err != nil {
				t.Errorf("below %s, there before: %v: %v", safe, there, err)
			}
		}
	}
}
