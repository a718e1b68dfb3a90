/* The tool interface (MPI 5.0 chapter 15) is not built: its calls return a code of its own, before MPI_Init, between MPI_Init and
 * MPI_Finalize, and after it. No error handler is called, and the process goes on. */
#include "check.h"

static void returns(int line, int code, int expected, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length, class = 0;
    same(__FILE__, line, code, expected, "%s", call);
    succeeded(__FILE__, line, MPI_Error_class(code, &class), "MPI_Error_class");
    same(__FILE__, line, class, expected, "class of %s", call);
    succeeded(__FILE__, line, MPI_Error_string(code, text, &length), "MPI_Error_string");
    if (strncmp(text, "MPI_T_ERR_", 10) != 0)
        fail(__FILE__, line, "text of %s: %s", call, text);
}

#define RETURNS(call, expected) returns(__LINE__, call, expected, #call)

static void tool(void)
{
    int number = 0, index, provided;
    MPI_T_pvar_session session;
    RETURNS(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_T_ERR_NOT_SUPPORTED);
    RETURNS(MPI_T_cvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
    RETURNS(MPI_T_pvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
    RETURNS(MPI_T_category_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
    RETURNS(MPI_T_cvar_get_index("x", &index), MPI_T_ERR_NOT_INITIALIZED);
    RETURNS(MPI_T_pvar_session_create(&session), MPI_T_ERR_NOT_INITIALIZED);
    RETURNS(PMPI_T_cvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
    RETURNS(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
}

int main(int argc, char **argv)
{
    tool();
    /* The errors of MPI_COMM_SELF and MPI_COMM_WORLD are fatal here. */
    begin(&argc, &argv);
    tool();
    int status = end("tool");
    tool();
    return status;
}
