import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { POLICY_FIELDS } from '#kernel/tool/tool'

const page = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8')
const [, section = ''] = page.split('### The policy of a tool')
const [table = ''] = section.split('**Tools of a tenant.**')

type Field = (typeof POLICY_FIELDS)[keyof typeof POLICY_FIELDS]

function valuesOf(field: Field): string {
  if ('choices' in field) return field.choices.map((choice) => `\`${choice}\``).join(', ')
  if ('max' in field) return `${field.min} to ${field.max}`
  return field.minItems === 0 ? 'list of strings' : `list of strings, at least ${field.minItems}`
}

it('docs/configuration.md lists every field of a policy with its possible values', () => {
  const rows = [...table.matchAll(/^\| `(\w+)` \| ([^|]+) \|/gm)].map(([, name, values]) => [name, values])
  expect(rows).toEqual(Object.entries(POLICY_FIELDS).map(([name, field]) => [name, valuesOf(field)]))
})
