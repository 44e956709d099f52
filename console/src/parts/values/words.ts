/*
 * The texts of values and contents. Only this folder uses them.
 */

export const WORDS = {
  content: 'Content',
  outputTool: 'Output of the tool',
  unknownType: 'unknown type',
  saveFile: 'Save file',
} as const
