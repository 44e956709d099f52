import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { loadCommands } from '#cli/run'
import { parseConfig } from '#config/load'
import { CONFIG_SCHEMA } from '#config/schema'
import { renderPage } from '../../scripts/cli-docs.ts'

const read = (name: string) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8')

describe('docs/cli.md', () => {
  it('is the output of npm run docs:cli', async () => {
    expect(read('cli.md')).toBe(renderPage(await loadCommands()))
  })
})

describe('docs/configuration.md', () => {
  const [table = ''] = read('configuration.md').split('\n\n**Tools** ')
  const rows = new Map(
    [...table.matchAll(/^\| *`([\w.]+)` *\| *(.+?) *\|/gm)].map(([, key = '', value = '']) => [key, value]),
  )

  it('has a row for every key, and no other rows', () => {
    const documented = [...rows.keys()].filter((key) => /^[a-z]/.test(key))
    expect(documented.sort()).toEqual(keysOf(CONFIG_SCHEMA).sort())
  })

  it('states the defaults of the code', () => {
    const defaults = parseConfig({}, 'x')
    expect(rows.get('server.host')).toBe(`\`${defaults.server.host}\``)
    expect(rows.get('server.port')).toBe(`\`${defaults.server.port}\``)
    expect(rows.get('server.bodyLimitBytes')).toBe(`\`${defaults.server.bodyLimitBytes}\``)
    expect(rows.get('store')).toBe(`\`${defaults.store}\``)
    expect(rows.get('calls.retentionHours')).toBe(`\`${defaults.calls.retentionHours}\``)
    expect(rows.get('calls.defaultTimeoutMs')).toBe(`\`${defaults.calls.defaultTimeoutMs}\``)
    expect(rows.get('calls.maxResultBytes')).toBe(`\`${defaults.calls.maxResultBytes}\``)
    expect(rows.get('journal.retentionDays')).toBe(`\`${defaults.journal.retentionDays}\``)
    expect(rows.get('egress.maxResponseBytes')).toBe(`\`${defaults.egress.maxResponseBytes}\``)
    expect(rows.get('egress.timeoutMs')).toBe(`\`${defaults.egress.timeoutMs}\``)
    expect(rows.get('egress.maxRedirects')).toBe(`\`${defaults.egress.maxRedirects}\``)
    expect(rows.get('log.level')).toBe(`\`${defaults.log.level}\``)
  })
})

/** `server.port`: sections are spelled out, everything deeper is one key. */
function keysOf(schema: z.ZodObject): string[] {
  return Object.entries(schema.shape).flatMap(([key, member]) => {
    const section = member instanceof z.ZodPrefault ? member.unwrap() : undefined
    return section instanceof z.ZodObject
      ? Object.keys(section.shape).map((inner) => `${key}.${inner}`)
      : [key]
  })
}
