#include "f08.inc"
#include "aborts.inc"
