#define FAILS
#include "f08.inc"
#include "finalize.inc"
