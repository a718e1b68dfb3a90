#include "f08.inc"
#include "generalized.inc"
