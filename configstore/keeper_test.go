package configstore

import "testing"

func FuzzDecodeKept(f *testing.F) {
	seed, err := encodeKept(kept{
		Seen:    []keptDocument{{MeshKey, []byte(`{` + metaJSON + `,"uuid":"00000000-0000-4000-8000-000000000001","last_region_number":1}`)}},
		InForce: []keptDocument{{TenantKey("t"), []byte(`{` + metaJSON + `}`)}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, false)
	f.Add([]byte(`{"seen":[{"key":"rhumb/v1/mesh","document":null}]}`), true)
	f.Add([]byte(`{"seen":null,"in_force":[{}]}`), true)
	f.Fuzz(func(t *testing.T, data []byte, sign bool) {
		if sign { // a checksum that fits, so that what is behind it is reached
			data = frameKept(data)
		}
		seen, inForce, err := decodeKept(data)
		if err != nil {
			return
		}
		for _, docs := range []map[string]Document{seen, inForce} {
			for key, d := range docs {
				if key != d.Key || d.Version == 0 {
					t.Fatalf("%s: %+v", key, d)
				}
			}
		}
	})
}
