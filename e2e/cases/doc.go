// Package cases tries public failures of other geo-replicated systems on whole
// regions: the real server on file systems and a network in memory, in virtual
// time. Each test is named after its case; docs/cases.md lists all of them, also
// those that a lower package tries and those that cannot happen here.
//
// Package sim draws its faults by seed; here each schedule is written down.
package cases
