# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes C++ units of a page's fenced blocks. With `program` set they are one program: declarations, then
# the other blocks in a row as main(argc, argv). Otherwise ```cpp is the body of a function that is given a
# mesh, a space and three fields of the type in preamble.hpp; ```cpp declarations stands outside functions; ```cpp file is a unit of its own;
# ```cpp test NAME is the header PAGE_NAME.hpp, which a test includes. `out` is the beginning of the units' names, `page` what the compiler calls the page.
BEGIN {
  unit = out ".cpp"
  variables = "const shard::Mesh<Lat, Lon>& mesh, const Kokkos::DefaultExecutionSpace& space, Field& t, Field& q, Field& next"
  if (!program) print "#include \"preamble.hpp\"" > unit
}
/^```cpp/ && !inside {
  inside = 1
  kind = $2
  if (kind != "" && kind != "declarations" && kind != "file" && (kind != "test" || $3 == "")) {
    print page ":" NR ": a block is cpp, cpp declarations, cpp file or cpp test NAME" > "/dev/stderr"
    exit 1
  }
  to = kind == "file" ? out "_" ++files ".cpp" : kind == "test" ? out "_" $3 ".hpp" : unit
  if (program && kind == "") {
    main = main "#line " NR + 1 " \"" page "\"\n"
    next
  }
  printf "#line %d \"%s\"\n", NR, page > to
  if (kind == "") printf "static void snippet_%d(%s) {{\n", NR, variables > to
  else print "" > to
  next
}
/^```/ && inside {
  if (kind == "" && !program) print "}}" > to
  inside = 0
  next
}
inside && program && kind == "" { main = main $0 "\n"; next }
inside { print > to }
END {
  if (inside) {
    print page ": a block has no end" > "/dev/stderr"
    exit 1
  }
  if (program) print "int main(int argc, char** argv) {\n" main "}" > unit
}
