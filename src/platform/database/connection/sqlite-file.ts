import { existsSync, statfsSync, statSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { dirname, resolve } from 'node:path';

/** The types of the network file systems of Linux (statfs(2)). */
const NETWORK_FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xfe534d42, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0x01021997, '9P'],
  [0x00c36400, 'Ceph'],
  [0x5346414f, 'AFS'],
  [0x0bd00bd0, 'Lustre'],
  [0x01161970, 'GFS2'],
  [0x47504653, 'GPFS'],
]);

/**
 * Returns the name of the network file system that contains a file, undefined if it is on another one.
 * SQLite does not support WAL mode there (https://sqlite.org/wal.html).
 *
 * @param getType returns the type of the file system of an existing path; replaced by tests
 */
export function getNetworkFileSystem(
  file: string,
  getType: (path: string) => number = (path) => statfsSync(path).type,
): string | undefined {
  return NETWORK_FILE_SYSTEMS.get(getType(getExistingPath(file)));
}

/**
 * Checks that 64 KiB can be written next to a database file, by writing and removing a file.
 *
 * @throws {Error} the error of the file system
 */
export async function requireSpace(file: string): Promise<void> {
  const path = `${file}-check`;
  try {
    await writeFile(path, Buffer.alloc(64 * 1024));
  } finally {
    await rm(path, { force: true });
  }
}

/** Describes who owns a file and its directory, and who runs the service, to explain a missing permission. */
export function describeOwnership(file: string): string {
  const path = resolve(file);
  const owners = [path, getExistingPath(dirname(path))]
    .filter((each) => existsSync(each))
    .map((each) => `${each} belongs to the user ${statSync(each).uid}`);
  return `${owners.join(', ')}; the service runs as the user ${getUser()}.`;
}

function getUser(): string {
  const uid = process.getuid?.() ?? 'unknown';
  try {
    return `${uid} (${userInfo().username})`;
  } catch {
    // In a container, the user may have no name.
    return String(uid);
  }
}

/** Returns the nearest directory that exists, or the path itself. */
function getExistingPath(path: string): string {
  return existsSync(path) ? path : getExistingPath(dirname(resolve(path)));
}
