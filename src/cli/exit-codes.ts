/** What a command's exit says; scripts rely on it. */
export const EXIT = {
  ok: 0,
  /** The tool ran and failed, or a check that was asked for did not hold. */
  toolFailed: 1,
  /** The command line, the configuration or the input is wrong. */
  usage: 2,
  /** The server, the store or the way to it. */
  server: 3,
  /** A command line that breaks the OpenTool guidelines, which have a code of their own for it (OTS-75). */
  opentoolUsage: 64,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]
