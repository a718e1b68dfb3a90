/* What the programs about windows share. */
#ifndef WINDOWS_H
#define WINDOWS_H

#include "check.h"

/* The memory of windows. */
static char memory[1000] UNUSED;

/* A window of MPI_COMM_WORLD whose errors return. */
static UNUSED MPI_Win new_window(void)
{
    MPI_Win win = MPI_WIN_NULL;
    OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK(win != MPI_WIN_NULL, "a new window has no handle");
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    return win;
}

static UNUSED void free_window(MPI_Win *win)
{
    OK(MPI_Win_free(win));
    CHECK(*win == MPI_WIN_NULL, "MPI_Win_free left the handle");
}

#endif
