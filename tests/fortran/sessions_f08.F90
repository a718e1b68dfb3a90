#include "f08.inc"
#include "sessions.inc"
