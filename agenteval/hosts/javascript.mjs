// Holds a JavaScript or TypeScript grader: one grader input per line on stdin, one answer per line on stdout.
// Run by bun or node. The first line out says whether the grader could be loaded; what the grader prints goes
// to stderr, so that it cannot spoil the answers.
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

for (const name of ["log", "info", "debug", "dir", "table"]) console[name] = console.error.bind(console);
process.stdout.write = (...args) => process.stderr.write(...args);

const say = (value) => {
  let rest = Buffer.from(JSON.stringify(value) + "\n");
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(1, rest));
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

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  try {
    say((await grade(JSON.parse(line))) ?? null);
  } catch (error) {
    say({ error: describe(error) });
  }
}
