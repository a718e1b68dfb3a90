/* C's part of callbacks_many.F90: 257 procedures of each kind, with the arguments of Fortran's. */

static int last;

void mpi_comm_create_errhandler_(void (*function)(int *, int *), int *errhandler, int *ierror);
void mpi_op_create_(void (*function)(void *, void *, int *, int *), const int *commute, int *op, int *ierror);

#define ONE(n) \
    static void handler##n(int *comm, int *code) { (void)comm, (void)code; last = 0x##n; } \
    static void op##n(void *in, void *inout, int *len, int *type) \
    { (void)in, (void)inout, (void)len, (void)type; last = 1000 + 0x##n; }
#define SIXTEEN(do, n) \
    do(n##0) do(n##1) do(n##2) do(n##3) do(n##4) do(n##5) do(n##6) do(n##7) \
    do(n##8) do(n##9) do(n##a) do(n##b) do(n##c) do(n##d) do(n##e) do(n##f)
#define ALL(do) \
    SIXTEEN(do, 0) SIXTEEN(do, 1) SIXTEEN(do, 2) SIXTEEN(do, 3) SIXTEEN(do, 4) SIXTEEN(do, 5) SIXTEEN(do, 6) SIXTEEN(do, 7) \
    SIXTEEN(do, 8) SIXTEEN(do, 9) SIXTEEN(do, a) SIXTEEN(do, b) SIXTEEN(do, c) SIXTEEN(do, d) SIXTEEN(do, e) SIXTEEN(do, f) \
    do(100)
ALL(ONE)

#define HANDLER(n) handler##n,
#define OP(n) op##n,
static void (*handlers[])(int *, int *) = {ALL(HANDLER)};
static void (*ops[])(void *, void *, int *, int *) = {ALL(OP)};

void create_errhandler(int which, int *errhandler, int *ierror)
{
    mpi_comm_create_errhandler_(handlers[which], errhandler, ierror);
}

void create_op(int which, int *op, int *ierror)
{
    int yes = 1;
    mpi_op_create_(ops[which], &yes, op, ierror);
}

int last_called(void)
{
    return last;
}
