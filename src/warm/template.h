/* A template: an interpreter that is loaded once, has never seen a guest's code, and of which
 * every warm box is a clone. It lives in a user namespace of its own, with no more rights on
 * the host than a plain user's keeper has, and makes boxes for the keeper as that one does
 * itself: the init of such a box is the interpreter's clone, and so is its guest.
 *
 *   keeper  --TEMPLATE_SETUP-->  loads the interpreter and the imports
 *           <--TEMPLATE_READY--
 *           --TEMPLATE_MAKE--->  clones itself into a fresh box
 *           <--TEMPLATE_BOX----
 *           --TEMPLATE_NET---->  may use this network again
 *
 * It ends when the keeper closes the socket; boxes that were made of it go on. */
#pragma once

/* The life of a template; `program` is the path of the interpreter that we are in. */
int template_main(const char *program);
