// Package arch tests the architecture of the module. Rules say which packages may import which, which may read the
// environment or exit, and which must be pure. It has no code of its own, only tests that read the module's
// sources.
//
// Each rule is a row of a table with its reason. A failing test prints the reason, so you can decide whether to
// move the code or change the rule. To change a rule, edit its row and give the reason in docs/design.
package arch
