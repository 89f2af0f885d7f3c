// Runs a JavaScript or TypeScript grader, in bun or node: one grader input per line on stdin, one answer per line on
// stdout. The first line of output is {"ready":true}, or an error if the grader cannot be loaded. What the grader
// prints goes to stderr, so that it does not mix with the answers.
import { closeSync, openSync, writeSync } from "node:fs";
import { Socket } from "node:net";
import { pathToFileURL } from "node:url";

// Keeps the pipes under other numbers. A file that is opened gets the lowest free descriptor, so these lines replace
// stdin by /dev/null and stdout by stderr, for the grader and its children.
const stdin = openSync("/dev/stdin", "r");
const stdout = openSync("/dev/stdout", "w");
closeSync(0);
openSync("/dev/null", "r");
closeSync(1);
openSync("/dev/stderr", "w");

const write = (fd, text) => {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
};
const send = (value) => write(stdout, JSON.stringify(value) + "\n");

const describe = (error) => (error instanceof Error ? `${error.name}: ${error.message}` : String(error)).replace(/\s+/g, " ");

let grade;
try {
  const module = await import(pathToFileURL(process.argv[2]).href);
  grade = module.grade ?? module.compare ?? (typeof module.default === "function" ? module.default : module.default?.grade);
  if (typeof grade !== "function") throw new TypeError("it exports no function 'grade'");
} catch (error) {
  send({ error: describe(error) });
  process.exit(0);
}
send({ ready: true });

// node reads a pipe well as a socket (a file stream would keep process.exit waiting), bun as a file.
const input = globalThis.Bun
  ? Bun.file(stdin).stream()
  : new Socket({ fd: stdin, readable: true, writable: false });

// Lines end at a newline and nowhere else: node:readline would also break at U+2028, which JSON may hold.
async function* lines(chunks) {
  let pieces = [];
  for await (const chunk of chunks) {
    const data = Buffer.from(chunk);
    let start = 0;
    for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10, start)) {
      yield Buffer.concat([...pieces, data.subarray(start, end)]).toString();
      pieces = [];
      start = end + 1;
    }
    pieces.push(data.subarray(start));
  }
}

for await (const line of lines(input)) {
  let answer;
  try {
    answer = JSON.stringify((await grade(JSON.parse(line))) ?? null);
  } catch (error) {
    answer = JSON.stringify({ error: describe(error) });
  }
  write(2, "\x1e"); // ends what the grader has printed about this record
  write(stdout, answer + "\n");
}
