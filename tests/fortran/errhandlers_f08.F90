#include "f08.inc"
#include "errhandlers.inc"
