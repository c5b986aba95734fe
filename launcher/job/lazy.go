package job

import "encoding/json"

// Package json examines a type's fields before it writes its first value, and so those of all types that may be in it.
// For these types, which have a method, it does so only if a value exists. That takes a quarter of a record's time.

func (a Attempt) MarshalJSON() ([]byte, error) { type plain Attempt; return json.Marshal(plain(a)) }

func (c Chaos) MarshalJSON() ([]byte, error) { type plain Chaos; return json.Marshal(plain(c)) }

func (f Failure) MarshalJSON() ([]byte, error) { type plain Failure; return json.Marshal(plain(f)) }

func (g Goodput) MarshalJSON() ([]byte, error) { type plain Goodput; return json.Marshal(plain(g)) }

func (h Hang) MarshalJSON() ([]byte, error) { type plain Hang; return json.Marshal(plain(h)) }

func (n NCCL) MarshalJSON() ([]byte, error) { type plain NCCL; return json.Marshal(plain(n)) }

func (s Stall) MarshalJSON() ([]byte, error) { type plain Stall; return json.Marshal(plain(s)) }
