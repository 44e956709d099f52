import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { tool } from '#kernel/tool/define'
import { prepareTools } from '#kernel/tool/prepare-tools'
import { defineConfig } from './config.ts'
import { parseConfig } from './load.ts'
import { checkAgainstTools } from './to-settings.ts'

const pay = tool({
  id: 'Bank.Pay@1.0.0',
  description: 'Pays.',
  input: z.object({ amount: z.number().describe('How much.') }),
  output: z.string(),
  policy: { approval: 'conditional' },
  run: ({ amount }) => `paid ${amount}`,
})
const remove = tool({
  id: 'Files.Delete@1.0.0',
  description: 'Deletes a file.',
  input: {
    type: 'object',
    properties: { path: { type: 'string', description: 'Which.' } },
    required: ['path'],
  },
  output: null,
  run: () => undefined,
})
const prepared = prepareTools([{ definition: pay }, { definition: remove }])
const tools = prepared.ok ? prepared.tools : []

function problemOf(config: object): string {
  try {
    const file = 'collet.config.ts'
    checkAgainstTools({ config: parseConfig(config, file), file }, tools)
    return ''
  } catch (error) {
    return String(error)
  }
}

describe('approvals.perTool', () => {
  it('gives predicates the input types of tools in the config, and JSON for other tools', () => {
    const config = defineConfig({
      tools: [pay, remove, 'tools/*.ts'],
      approvals: {
        perTool: {
          'Bank.Pay': { quorum: 2, when: ({ input }) => input.amount.toFixed() !== '100' },
          'Files.Delete@1.0.0': { when: ({ input }) => input.path.startsWith('/') },
          'GitHub.merge': { when: ({ input }) => typeof input.number === 'number' && input.number > 1 },
        },
      },
    })
    const wrong = defineConfig({
      tools: [pay],
      // @ts-expect-error: the tool has no such member
      approvals: { perTool: { 'Bank.Pay': { when: ({ input }) => input.path > 100 } } },
    })
    // @ts-expect-error: not all tools have an amount
    const all = defineConfig({ approvals: { when: ({ input }) => input.amount > 100 } })
    expect([config, wrong, all].map((one) => one.approvals !== undefined)).toEqual([true, true, true])
  })

  it('refuses two entries for one tool under two names, but accepts one for a version and one for all versions', () => {
    const twice = (...names: readonly string[]) =>
      problemOf({ approvals: { perTool: Object.fromEntries(names.map((name) => [name, { quorum: 2 }])) } })
    expect(twice('Bank.Pay', 'Bank_Pay')).toContain(
      'approvals.perTool.Bank_Pay: is another name for the tool of approvals.perTool.Bank.Pay. Write only one entry for it.',
    )
    expect(twice('Bank.Pay@1.0.0', 'openwop:Bank.Pay@1')).toContain('is another name')
    expect(twice('Bank.Pay', 'Bank_Pay@1.0.0', 'Files.Delete')).toBe('')
  })

  it('refuses an unknown tool, and a predicate that would never be called', () => {
    const when = () => true
    expect(problemOf({ approvals: { perTool: { 'Bank.Pay': { when } } } })).toBe('')
    for (const name of [
      'Bank_Pay',
      'openwop:Bank.Pay',
      'Bank.Pay@1',
      'Bank_Pay@1.0.0',
      'openwop:Bank.Pay@1',
    ]) {
      expect(problemOf({ approvals: { perTool: { [name]: { when } } } })).toBe('')
    }
    expect(problemOf({ approvals: { perTool: { 'Bank_Pay@2': { when } } } })).toContain('no such tool')
    expect(problemOf({ approvals: { perTool: { 'Bank.Pya': { when } } } })).toContain(
      'Did you mean "Bank.Pay"?',
    )
    expect(problemOf({ approvals: { perTool: { 'Files.Delete': { when } } } })).toContain(
      "Files.Delete@1.0.0 has the approval 'never', so `when` is never called",
    )
  })
})
