package kafka

// ptr gives a pointer to a copy, which optional strings of the codec want.
func ptr[T any](v T) *T { return &v }

// orEmpty reads an optional string, orNull writes one.
func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
