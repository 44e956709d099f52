import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { COMMON_OPTIONS, type Command } from '#cli/command'
import { loadCommands } from '#cli/run'
import { readJsonConfig } from '#config/json-config'
import { parseConfig } from '#config/load'
import { CONFIG_SCHEMA } from '#config/schema'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { readBlocks } from './markdown-blocks.ts'

/**
 * Checks of every page, besides its own test: commands and their options exist, configs are valid, and each block has a
 * kind that some test reads.
 */

const ROOT = resolve(import.meta.dirname, '../..')
const PAGES = globSync('{README.md,docs/*.md,docs/{protocols,recipes,sources}/*.md}', { cwd: ROOT }).sort()

/** `text` is what programs print; nginx, yaml and jsonc are files of other programs, which separate tests read. */
const LANGUAGES: ReadonlySet<string> = new Set([
  'ts',
  'js',
  'json',
  'jsonc',
  'sh',
  'text',
  'yaml',
  'toml',
  'nginx',
])

/** Environment variables that configs on pages use. */
const VARIABLES = { AGENT_KEY: 'a-key-of-32-random-bytes-or-more' }

/** Every collet command line on a page: in a block, or in a sentence. */
function commandLines(page: string): readonly string[] {
  const shell = readBlocks(page).filter(({ language }) => language === 'sh')
  const inBlocks = shell.flatMap(({ text }) =>
    [...text.matchAll(/(?:^|\| |&& )(?:npx )?collet (.*)$/gm)].map(([, line = '']) => line),
  )
  const prose = readFileSync(join(ROOT, page), 'utf8').replaceAll(/^```[\s\S]*?^```$/gm, '')
  const inProse = [...prose.matchAll(/`(?:npx )?collet ([a-z][^`]*)`/g)].map(([, line = '']) => line)
  return [...inBlocks, ...inProse]
}

/** What is wrong with a command line; a placeholder such as COMMAND stands for any. */
function findMistakes(line: string, commands: readonly Command[]): readonly string[] {
  const [own = ''] = line.replaceAll(/'[^']*'|"[^"]*"/g, 'TEXT').split(/ -- | # |[|>&;]/)
  const words = own.trim().split(/\s+/)
  const command = commands
    .filter(({ name }) => name.split(' ').every((word, index) => words[index] === word))
    .toSorted((left, right) => right.name.length - left.name.length)[0]
  if (command === undefined) {
    const isGroup = commands.some(({ name }) => name.startsWith(`${words[0]} `))
    return isGroup && words.length === 1 ? [] : [`there is no command: collet ${line}`]
  }
  // `opentool start` has the options of a foreign standard, and reads them itself.
  if (command.name === 'opentool') return []
  const known = new Set([...Object.keys(command.options), ...Object.keys(COMMON_OPTIONS)])
  return words
    .filter((word) => word.startsWith('--') && !known.has(word.slice(2).replace(/[^a-z-].*$/, '')))
    .map((word) => `there is no ${word}: collet ${line}`)
}

function isConfig(value: JsonValue): boolean {
  if (!isJsonObject(value)) return false
  const keys = Object.keys(value).filter((key) => key !== '$schema')
  return keys.length > 0 && keys.every((key) => Object.hasOwn(CONFIG_SCHEMA.shape, key))
}

describe.each(PAGES)('%s', (page) => {
  it('names only commands and options that exist', async () => {
    const commands = await loadCommands()
    expect(commandLines(page).flatMap((line) => findMistakes(line, commands))).toEqual([])
  })

  it('runs TypeScript with the Node 24 of the project, whatever Node the machine has', () => {
    const text = readFileSync(join(ROOT, page), 'utf8')
    expect([...text.matchAll(/(?:^|`|&& )node (?:--\S+ )*\S+\.ts\b.*$/gm)].map(([line]) => line)).toEqual([])
  })

  it('has blocks that a test reads, and configs that are valid', () => {
    const blocks = readBlocks(page)
    expect(blocks.filter(({ language }) => !LANGUAGES.has(language)).map(({ line }) => line)).toEqual([])
    for (const { language, text, line } of blocks) {
      if (language !== 'json') continue
      const value: JsonValue = JSON.parse(text)
      if (!isConfig(value)) continue
      const { config, problems } = readJsonConfig(text, VARIABLES)
      expect(problems).toEqual([])
      expect(() => parseConfig(config, `${page}:${line}`)).not.toThrow()
    }
  })
})

it('detects a command and an option that do not exist', async () => {
  const commands = await loadCommands()
  expect(findMistakes('serf --port 0', commands)).toHaveLength(1)
  expect(findMistakes("keys create ci --scop 'a:*'", commands)).toHaveLength(1)
  expect(findMistakes('keys create ci --scope a -- --other', commands)).toEqual([])
})
