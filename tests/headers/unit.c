/* Something to compile after the header under test: an empty translation unit is no valid C. */
int slipring_header_compiles;
