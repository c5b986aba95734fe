package env

import "os"

// ThreadsChosen reports whether GOMAXPROCS is set: by the user, or by gorun for ranks that share CPUs.
func ThreadsChosen() bool { return os.Getenv(VarGoMaxProcs) != "" }
