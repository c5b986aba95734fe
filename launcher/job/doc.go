// Package job is gorun's pure core. A [Spec] is a wish: what the user asked
// for, in gorun's own words, whatever dialect it was typed in. [NewPlan] turns
// it and the facts of the nodes into a [Plan]: a decision, complete before the
// first rank exists, that can be printed, tested and compared. The
// [Supervisor] then answers each [Event] of the running job with [Order]s, and
// ends with a [Result].
//
// Nothing in this package has a goroutine, a clock, a file or a process: times
// come in with the events, and the loop around it acts on the orders.
package job
