package kafka

// ptr gives a pointer to a copy, which optional strings of the codec want.
func ptr[T any](v T) *T { return &v }
