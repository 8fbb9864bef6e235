// Package browser drives the live page in Chromium as people do: with a mouse, with the keyboard
// alone, in narrow and wide windows, light and dark. Real hostds and a real program have the mesh
// that it shows, and `castnet ui --act` serves it.
//
// # Contract
//
//   - BRW-1 (fits): In windows of 360, 800 and 1,280 px, light and dark, each view has nothing that
//     is cut off or needs sideways scrolling, and axe-core finds nothing.
//   - BRW-2 (keyboard): Each action of the page works without a mouse.
//   - BRW-3 (trouble): A mesh that ends, a host that dies, a lost bus and an ended server each show
//     as such, and so do values that are not known. The last picture stays, with its age.
//
// # Details
//
// `make browser` builds the programs, installs axe-core by the hashes of axe/package-lock.json, and
// runs the tests. They need a Chromium on the PATH. With -update they write the pictures of the
// documentation.
package browser
