// The same grader as a module: ae-grade loads it into one long-lived bun or node process.
export const grade = ({ output }) => {
  const pass = output.includes("the");
  return { pass, score: pass ? 1 : 0 };
};
