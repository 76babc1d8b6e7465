// Package yamlfault says where a text is no YAML. The library names the line in which the
// part began that it could not read to the end, or the one before, or none at all; who
// corrects a file by hand needs the line that is wrong.
package yamlfault
