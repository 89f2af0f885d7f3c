// Holds a JavaScript or TypeScript grader: one grader input per line on stdin, one answer per line on stdout.
// Run by bun or node. The first line out says whether the grader could be loaded; what the grader prints goes
// to stderr, so that it cannot spoil the answers.
import { closeSync, createReadStream, openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// Our own ends of the pipes; a descriptor that is opened takes the lowest free number, so these lines put
// /dev/null in the place of stdin and stderr in the place of stdout, for the grader and for its children.
const questions = openSync("/dev/stdin", "r");
const answers = openSync("/dev/stdout", "w");
closeSync(0);
openSync("/dev/null", "r");
closeSync(1);
openSync("/dev/stderr", "w");

const say = (value) => {
  let rest = Buffer.from(JSON.stringify(value) + "\n");
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(answers, rest));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
};

const describe = (error) => (error instanceof Error ? `${error.name}: ${error.message}` : String(error)).replace(/\s+/g, " ");

let grade;
try {
  const module = await import(pathToFileURL(process.argv[2]).href);
  grade = module.grade ?? module.compare ?? (typeof module.default === "function" ? module.default : module.default?.grade);
  if (typeof grade !== "function") throw new TypeError("it exports no function 'grade'");
} catch (error) {
  say({ error: describe(error) });
  process.exit(0);
}
say({ ready: true });

for await (const line of createInterface({ input: createReadStream("", { fd: questions }), crlfDelay: Infinity })) {
  try {
    say((await grade(JSON.parse(line))) ?? null);
  } catch (error) {
    say({ error: describe(error) });
  }
}
