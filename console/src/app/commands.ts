import { wordsOf } from '../../../src/sources/kit/command-words.ts'

/**
 * Quotes a word for a POSIX shell. Every command that the console shows is built with this function, so that a copied command
 * runs nothing else.
 */
export function quoted(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

/** The `collet import` command for a target, which is split into words as on the server. */
export function importCommand(target: string): string {
  return isCommand(target)
    ? `collet import -- ${wordsOf(target).map(quoted).join(' ')}`
    : `collet import ${quoted(target.replace(/^file:\/\//i, ''))}`
}

/** Whether a target is a program with its arguments: neither a URL nor a file. */
export function isCommand(target: string): boolean {
  return !/^(?:https?|file):\/\//i.test(target) && !/^\S+\.(?:json|ya?ml)$/i.test(target)
}

/** Whether a command may be meant as a file: it is one word that is a path. */
export function looksLikeFile(target: string): boolean {
  return isCommand(target) && /^(?:~|\.{0,2})\/\S*$/.test(target)
}

/** Words that need no quotes. zsh treats a leading `=` as the path of a program. */
const PLAIN = /^[\w@%+:,./-][\w@%+=:,./-]*$/
