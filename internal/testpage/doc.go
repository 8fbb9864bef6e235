// Package testpage runs a page of documentation as its reader would: block by block, from top to
// bottom. The language of a fenced block, and a comment before it, say what becomes of it:
//
//	sh                     runs in the shell of the page, which keeps its folder and variables
//	<!-- stays -->         each line of a sh block runs in a terminal of its own, and a program of
//	                       another language, too, until the page ends
//	<!-- file NAME -->     is saved as a file in the folder of the shell
//	no language            the output of the block before: each line of it, in any order
//	text                   a form or a picture, which does nothing
//	go, without a comment  a part of a program; see Fragments
//	others                 a program in a language that the test knows
//
// In an output, … stands for any text, and every ID for any other. In a table a number stands for
// any number. A page that needs more than the programs of castnet says so in its first line, which
// begins with "Needs ".
package testpage
