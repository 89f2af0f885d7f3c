// The same grader as a module: ae-grade holds it in one long-lived bun or node.
export const grade = ({ output }) => {
  const pass = output.includes("the");
  return { pass, score: pass ? 1 : 0 };
};
