// Package mutant plants known bugs in the pure cores, to prove that their tests
// would find them. A planted bug is one more condition in the code,
//
//	if b.Prev > w.Offset || mutant.On(mutant.PrevIgnored) {
//
// In ordinary builds [On] is the constant false: the compiler removes the
// condition and the names with it. With the build tag "mutants" one bug at a
// time is switched on by [Activate], and the tests named TestEveryMutantIsFound
// run the ordinary models against each in turn: a bug that no model finds within
// the number of seeds of an ordinary run fails the test.
package mutant
