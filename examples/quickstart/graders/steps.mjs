// Did the agent work soundly? A module that exports `grade` grades the steps it took, not its answer.
//   1. it used the tool that the prompt `needs`: an answer guessed right is still a guess
//   2. no tool was left failing: after a failed call, a later call of the same tool succeeded

export const grade = ({ trajectory = [], needs }) => {
  const calls = (trajectory ?? []).filter((step) => step.type === 'tool_call')
  const last = new Map(calls.map((call) => [call.name, call.status])) // later calls replace earlier ones

  const checks = []
  if (needs) checks.push([last.has(needs), `used ${needs}`, `answered without ${needs}`])
  for (const [name, status] of last) {
    const retried = calls.some((call) => call.name === name && call.status === 'failed')
    checks.push([status === 'completed', retried ? `${name} recovered` : `${name} worked`, `${name} left ${status}`])
  }

  const passed = checks.filter(([ok]) => ok).length
  return {
    pass: passed === checks.length,
    score: checks.length ? passed / checks.length : 1,
    reasoning: checks.map(([ok, good, bad]) => (ok ? good : bad)).join('; ') || 'no tool needed, none used',
  }
}
