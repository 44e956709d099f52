import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ownCommand } from './own-command.ts'

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-own-command-'))
})

afterEach(() => rmSync(folder, { recursive: true }))

function make(...parts: readonly string[]): string {
  const file = join(folder, ...parts)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, '')
  return dirname(file)
}

it('is the launcher in a checkout, relative to the current folder', () => {
  const root = make('checkout', 'collet')
  expect(ownCommand(root, root)).toBe('./collet')
  expect(ownCommand(join(root, 'examples'), root)).toBe('../collet')
  expect(ownCommand('/elsewhere/far/from/it', root)).toBe(join(root, 'collet'))
})

it('is npx if the project has the package, also in a subfolder and if it is linked to a checkout', () => {
  const root = make('checkout', 'collet')
  make('project', 'node_modules', '.bin', 'collet')
  for (const place of ['project', 'project/tools'])
    expect(ownCommand(join(folder, place), root)).toBe('npx collet')
})

it('is collet if the package is installed globally', () => {
  make('bin', 'collet')
  const root = make('lib', 'node_modules', 'collet', 'package.json')
  expect(ownCommand(folder, root)).toBe('collet')
})

it('is the path of the file otherwise, and never downloads a package', () => {
  const root = make('odd place', 'package.json')
  expect(ownCommand(folder, root)).toBe(`node "${join(root, 'bin/collet.js')}"`)
})
