import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { findConfig } from './load.ts'

describe('findConfig', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  it('finds the only config in the folder', () => {
    writeFileSync(join(folder, 'collet.config.mjs'), '')
    expect(findConfig(folder)).toBe(join(folder, 'collet.config.mjs'))
  })

  it('uses a named file, relative to the folder', () => {
    writeFileSync(join(folder, 'other.json'), '')
    expect(findConfig(folder, 'other.json')).toBe(join(folder, 'other.json'))
  })

  it('names the next step if there is no config, or more than one', () => {
    expect(() => findConfig(folder)).toThrow('"collet init" creates one with a first tool;')
    expect(() => findConfig(folder, 'gone.ts')).toThrow(`There is no config file ${join(folder, 'gone.ts')}`)
    writeFileSync(join(folder, 'collet.config.ts'), '')
    writeFileSync(join(folder, 'collet.config.json'), '')
    expect(() => findConfig(folder)).toThrow('Both collet.config.ts and collet.config.json are in')
  })
})
