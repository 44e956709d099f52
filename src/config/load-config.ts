import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ConfigError } from './config-error.ts'
import type { ParsedConfig } from './config-schema.ts'
import { type ImportModule, importFile } from './import-file.ts'
import { parseConfig } from './parse-config.ts'

export interface LoadedConfig {
  /** Absolute. */
  readonly file: string
  /** What relative paths in the config are relative to. */
  readonly folder: string
  readonly config: ParsedConfig
}

/** Reads and checks one config file. Tool files are not imported yet: see `loadTools`. */
export async function loadConfig(file: string, load?: ImportModule): Promise<LoadedConfig> {
  const raw = file.endsWith('.json') ? await readJson(file) : await readModule(file, load)
  return { file, folder: dirname(file), config: parseConfig(raw, file) }
}

async function readModule(file: string, load: ImportModule | undefined): Promise<unknown> {
  const { default: config } = await importFile(file, load)
  if (config !== undefined) return config
  throw problem(file, 'exports no config. Write "export default defineConfig({ … })".')
}

async function readJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    throw problem(
      file,
      error instanceof SyntaxError ? `is not JSON: ${error.message}` : 'cannot be read.',
      error,
    )
  }
}

function problem(file: string, message: string, cause?: unknown): ConfigError {
  return new ConfigError([{ severity: 'error', file, message }], { cause })
}
