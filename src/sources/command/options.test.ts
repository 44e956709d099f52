import { describe, expect, it } from 'vitest'
import { COMMAND_OPTIONS } from './options.ts'

const COMMAND = { argv: ['date'], description: 'Tells the time.' }

function problemsOf(options: object): string {
  const parsed = COMMAND_OPTIONS.safeParse({ type: 'command', commands: { now: COMMAND }, ...options })
  return parsed.success
    ? ''
    : parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('\n')
}

describe('the options of commands', () => {
  it('fills in defaults', () => {
    const parsed = COMMAND_OPTIONS.parse({ type: 'command', commands: { now: COMMAND } })
    expect(parsed).toMatchObject({ vendor: 'local', isolation: 'auto', hide: ['.collet'] })
    expect(parsed.commands.now).toMatchObject({ okExitCodes: [0], timeoutMs: 60_000, network: false })
  })

  it('never prints values of variables', () => {
    const commands = { now: { ...COMMAND, env: { TOKEN: 'canary-value' } } }
    const parsed = COMMAND_OPTIONS.parse({ type: 'command', commands })
    expect(JSON.stringify(parsed)).not.toContain('canary')
    expect(parsed.commands.now?.env.TOKEN?.reveal()).toBe('canary-value')
  })

  it.each([
    [
      'OWP-31: a tier other than exec',
      { policy: { safetyTier: 'read' } },
      'policy.safetyTier: commands always have the tier exec',
    ],
    ['rule 7: a deterministic command', { tools: { now: { replay: 'deterministic' } } }, 'tools.now.replay'],
    ['OWP-86: a vendor that is not a label', { vendor: 'Acme Inc' }, 'vendor: expected lower-case'],
    ['OWP-86: a name that is not a label', { commands: { 'Disk Usage': COMMAND } }, 'Disk Usage'],
    [
      'a string instead of an argv',
      { commands: { now: { ...COMMAND, argv: 'date -u' } } },
      'commands.now.argv',
    ],
    [
      'an undeclared parameter',
      { commands: { now: { ...COMMAND, argv: ['date', '{zone}'] } } },
      '{zone} is not a parameter',
    ],
    [
      'an unused parameter',
      { commands: { now: { ...COMMAND, input: { type: 'object', properties: { zone: {} } } } } },
      'commands.now.input.properties.zone: is not used',
    ],
    [
      'the keys of the server',
      { commands: { now: { ...COMMAND, inheritEnv: ['COLLET_KEY'] } } },
      'commands.now.inheritEnv.0: is a variable of the server itself',
    ],
    ['an unknown member', { commands: { now: { ...COMMAND, shell: true } } }, 'shell'],
    [
      'an exit code with two meanings',
      { commands: { now: { ...COMMAND, okExitCodes: [0, 1], retryExitCodes: [1] } } },
      'retryExitCodes',
    ],
  ])('refuses %s', (_title, options, expected) => {
    expect(problemsOf(options)).toContain(expected)
  })
})
