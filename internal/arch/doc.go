// Package arch holds the walls of the house by a test: which room may import which, who may read the environment or
// exit, what a pure package may not touch. It has no code of its own, only tests that read the module's sources.
//
// Each rule is a row of a table with its reason, and the reason is what a failing test prints: whoever meets it should
// be able to decide whether the code is in the wrong room or the wall is. To move a wall, change its row and say why in
// docs/design.
package arch
