-- Rows in memory, of which a fifth is deleted: their pages go back to malloc.
CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO t SELECT i, hex(zeroblob(10 + i * 7919 % 700)) FROM n;
CREATE INDEX tb ON t (b);
DELETE FROM t WHERE a > 48000;
DROP INDEX tb;
SELECT 'ready';
.system while kill -0 $PPID 2>&-; do sleep 1; done
