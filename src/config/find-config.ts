import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ConfigError } from './config-error.ts'

export const CONFIG_NAMES = [
  'collet.config.ts',
  'collet.config.js',
  'collet.config.mjs',
  'collet.config.json',
] as const

/** The config file to use, absolute: the named one, or the only one in the folder. */
export function findConfig(folder: string, named?: string): string {
  if (named !== undefined) return existing(resolve(folder, named))
  const [first, second] = CONFIG_NAMES.filter((name) => existsSync(join(folder, name)))
  if (first === undefined) {
    throw problem(
      `There is no config in ${folder}. Create collet.config.ts there, or name a file with --config.`,
    )
  }
  if (second !== undefined) {
    throw problem(`There are both ${first} and ${second} in ${folder}. Keep one, or name one with --config.`)
  }
  return join(folder, first)
}

function existing(file: string): string {
  if (existsSync(file)) return file
  throw problem(`There is no config file ${file}.`)
}

function problem(message: string): ConfigError {
  return new ConfigError([{ severity: 'error', message }])
}
