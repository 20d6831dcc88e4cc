/* SPDX-License-Identifier: Apache-2.0 */
/* A C program with libpython in it: runs a file's functions, called out of functions of its own. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static __attribute__((noinline)) void called_by_c(PyObject *function)
{
    Py_XDECREF(PyObject_CallNoArgs(function));
    PyErr_Clear();
}

int main(int argc, char **argv)
{
    Py_Initialize();
    PyRun_SimpleString("def spin():\n    x = 0\n    for i in range(3000): x += i\n    return x\n"
                       "def embedded():\n    return spin()\n");
    PyObject *function = PyObject_GetAttrString(PyImport_AddModule("__main__"), "embedded");
    for (;;)
        called_by_c(function);
}
