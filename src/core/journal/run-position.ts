/** What a journal event says about its place in a run (rule 16). */
export interface RunPosition {
  readonly run: string
  readonly sequence: number
}
