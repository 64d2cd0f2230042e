#include <dlib/dnn.h>

int main() {}
