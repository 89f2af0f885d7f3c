// Whether the output has the hint, for agent-eval-harness.
export const grade = async ({ output, hint }) => {
  const pass = output.includes(hint);
  return { pass, score: pass ? 1 : 0 };
};
