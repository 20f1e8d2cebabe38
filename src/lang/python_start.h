/* How Python code is run that is no file: a program of ours takes it from standard input. It is
 * the same text each time, so that a template can have it compiled before (src/warm). */
#pragma once

/* What the code is called in tracebacks, as that of python3 -c is. To give it another name takes
 * compile(), which first makes the types of a syntax tree: two milliseconds. */
#define PYTHON_START_NAME "<string>"

/* For python3 -c. Runs as __main__ what comes by standard input, of which nothing is left then: it
 * is no file of the session's, and costs none. How many bytes that are is its argument, since a
 * part of a program, which is all that a server may have come to send before it died, must not be
 * executed; and so that it need not wait for the end of them. So that tracebacks show its lines all
 * the same, they are kept for them; our own frames are not shown. What does that is a text, which
 * is compiled when it is needed. */
extern const char python_start[];
