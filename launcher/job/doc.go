// Package job is the pure core of gorun. A [Spec] is what the user requested, whatever command line it came from.
// [NewPlan] turns it and the facts of the nodes into a [Plan], which is complete before the first rank starts and can
// be printed, tested and compared. The [Supervisor] answers each [Event] of the running job with [Order]s, and ends
// with a [Result].
//
// Nothing in this package has a goroutine, a clock, a file or a process: times come with the events, and the caller
// carries out the orders.
package job
